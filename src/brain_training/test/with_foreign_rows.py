# SPDX-License-Identifier: Apache-2.0
"""The command as torchrun starts it in the tests."""
import typer

from brain_training.collectives import collectives

app = typer.Typer()
app.command()(collectives)
app(["--only", "scatter_object_list", "--only", "isend_irecv", "--sizes", "8B,1KiB", "--repeats", "2", "--json"])
