# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""uccl, a reliable multipath provider for libfabric, as a Python package: where it is, and what makes MPI use it."""

import importlib.metadata
import os

__version__ = importlib.metadata.version("uccl-fi")

_here = os.path.dirname(os.path.abspath(__file__))


def provider_dir():
    """The folder of libuccl-fi.so, for FI_PROVIDER_PATH."""
    return os.path.join(_here, "lib")


def include_dir():
    """The folder of rdma/fi_ext_uccl.h, for a compiler."""
    return os.path.join(_here, "include")


def environment(shared_memory=True, environ=os.environ):
    """
    The variables with which MPICH, Open MPI 4 and 5, and any other program over libfabric use the provider, as a dict of
    strings. Each library reads its own and leaves the others alone. Folders that environ has in FI_PROVIDER_PATH stay,
    behind ours. Without shared_memory MPICH sends over the provider between processes of one host, too, as Open MPI
    always does with these settings.
    """
    ours = provider_dir()
    others = [p for p in environ.get("FI_PROVIDER_PATH", "").split(":") if p and p != ours]
    variables = {
        "FI_PROVIDER_PATH": ":".join([ours] + others),
        "FI_PROVIDER": "uccl",
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "OMPI_MCA_pml": "cm",
        "OMPI_MCA_mtl": "ofi",
        "OMPI_MCA_mtl_ofi_provider_include": "uccl",
        "OMPI_MCA_opal_common_ofi_provider_include": "uccl",
    }
    if not shared_memory:
        variables["MPIR_CVAR_NOLOCAL"] = "1"
    return variables
