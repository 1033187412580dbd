"""Commands that other installed packages add to `anytimebp`, by entry points in the group `anytimebp.commands`.

They are looked up if the library has no command of that name, and for `--help`. A command that cannot be loaded is
still listed; calling it says why. It does not affect other commands.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import click

GROUP = "anytimebp.commands"
ELSEWHERE = {"reproduce": "it is part of the evaluation, which is not installed; in a clone: pip install ./evaluation"}


class Commands(click.Group):
    """The commands of this library, and those that other packages add; of two with one name, ours."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *_added()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or None."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = _added().get(cmd_name)
        return None if entry is None else _load(entry)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for; if a known package would add it, name the package."""
        name = args[0]
        if name in ELSEWHERE and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            msg = f"there is no command {name} yet: {ELSEWHERE[name]}"
            raise click.ClickException(msg)
        return super().resolve_command(ctx, args)


def _added() -> dict[str, EntryPoint]:
    """Return the commands that installed packages add, by name; packages with unreadable metadata add none."""
    try:
        found = list(entry_points(group=GROUP))
    except Exception:  # noqa: BLE001  (another package's files)
        return {}
    return {entry.name: entry for entry in reversed(found)}


def _load(entry: EntryPoint) -> click.Command:
    """Return a command of another package, or one that says why there is none."""
    try:
        command = entry.load()
        if not isinstance(command, click.Command):
            msg = f"{entry.value} is not a click command"
            raise TypeError(msg)  # noqa: TRY301  (told as whatever else goes wrong)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (another package's code)
        return _broken(entry, error)
    return command


def _broken(entry: EntryPoint, error: BaseException) -> click.Command:
    text = f"{entry.value} cannot be loaded: {type(error).__name__}: {error}"

    def refuse() -> None:
        raise click.ClickException(text) from error

    return click.Command(
        entry.name,
        callback=refuse,
        help=text,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
