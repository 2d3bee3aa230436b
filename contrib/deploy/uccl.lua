-- SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
-- Module file for Lmod. Put it into a folder of MODULEPATH as uccl/0.1.lua, and set `prefix` to the folder of the
-- installation (configure --prefix). Then: module load uccl
local prefix = "/opt/uccl/0.1"

help([[The uccl provider for libfabric: reliable multipath messages over UDP, AF_XDP and RDMA NICs.
It sets where libfabric finds the provider, and that Open MPI and MPICH use it. man fi_uccl says more.]])
whatis("Name: uccl")
whatis("Description: a reliable multipath provider for libfabric")

prepend_path("FI_PROVIDER_PATH", pathJoin(prefix, "lib/libfabric"))
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
setenv("FI_PROVIDER", "uccl")
-- Open MPI 4, Open MPI 5, MPICH.
setenv("OMPI_MCA_pml", "cm")
setenv("OMPI_MCA_mtl", "ofi")
setenv("OMPI_MCA_mtl_ofi_provider_include", "uccl")
setenv("OMPI_MCA_opal_common_ofi_provider_include", "uccl")
setenv("MPIR_CVAR_CH4_NETMOD", "ofi")
