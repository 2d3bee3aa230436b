# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# spack repo add contrib/deploy/spack; spack dev-build uccl@0.1 (in the top folder of the source)
from spack.package import *


class Uccl(AutotoolsPackage):
    """uccl: a reliable multipath provider for libfabric, over UDP, AF_XDP and RDMA NICs."""

    # The source has no page of its own: AUTHORS says where its authors can be reached. This is the page of libfabric.
    homepage = "https://ofiwg.github.io/libfabric/"
    license("BSD-2-Clause OR GPL-2.0-only")

    version("0.1")

    variant("verbs", default=True, description="back ends for RDMA NICs (libibverbs, loaded at run time)")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("uthash", type="build")
    depends_on("libfabric@1.17:")
    depends_on("libsodium@1.0.12:")
    depends_on("hwloc", type="run")
    depends_on("rdma-core", when="+verbs")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        return [f"--with-provdir={self.prefix.lib.libfabric}"]

    def setup_run_environment(self, env):
        env.prepend_path("FI_PROVIDER_PATH", self.prefix.lib.libfabric)
        env.set("FI_PROVIDER", "uccl")
