# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What pyproject.toml cannot say: which platform the wheel is for, and which programs there are."""

import os
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProgramsHook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata):
        programs = sorted(os.listdir(os.path.join(self.root, "uccl_fi", "bin")))
        metadata["scripts"] = {name: "uccl_fi.tools:main" for name in programs}


class PlatformHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        module = os.path.join(self.root, "uccl_fi", "lib", "libuccl-fi.so")
        if not os.path.isfile(module):
            raise FileNotFoundError(f"{module}: util/build-wheel builds it and then the wheel")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
