"""The part of the wheel's build that pyproject.toml cannot describe: the repository's ``assets`` and
``model_catalog.yaml`` lie beside the packages, and a wheel has them inside ``app/shipped``.

``[tool.setuptools.cmdclass]`` names these two commands; ``app.paths.shipped`` finds the files.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

from setuptools import Command
from setuptools.command.build import build

SHIPPED = Path("app", "shipped")
CATALOG = "model_catalog.yaml"


class Build(build):
    """setuptools' command, which then also copies what ships beside the packages."""

    sub_commands: ClassVar = [*build.sub_commands, ("build_shipped", None)]

    def run(self) -> None:
        if not self.get_finalized_command("build_py").editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # it would add files that are gone
        super().run()


class BuildShipped(Command):
    """Copy the shipped files into the packages. An editable installation reads them where they are."""

    editable_mode = False

    def initialize_options(self) -> None:
        """There are none: ``Build`` has the folder."""

    def finalize_options(self) -> None:
        self.build_lib = Path(self.get_finalized_command("build").build_lib)

    def run(self) -> None:
        if not self.editable_mode:
            for to, source in self.get_output_mapping().items():
                self.mkpath(str(Path(to).parent))
                self.copy_file(source, to)

    def get_output_mapping(self) -> dict[str, str]:
        """Return source files by the path of their copies."""
        files = (path for path in Path("assets").rglob("*") if path.is_file())
        sources = [Path(CATALOG), *sorted(files)]
        return {str(self.build_lib / SHIPPED / path): path.as_posix() for path in sources}

    def get_outputs(self) -> list[str]:
        return list(self.get_output_mapping())

    def get_source_files(self) -> list[str]:
        """Return what an sdist needs for this, which is these files and this module."""
        return [*self.get_output_mapping().values(), "tools/__init__.py", "tools/packaging.py"]
