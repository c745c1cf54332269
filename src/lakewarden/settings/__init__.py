"""What a user writes: one TOML file and the environment."""

from lakewarden.model.redaction import redact
from lakewarden.settings.load import load_settings
from lakewarden.settings.resolve import PolicyInEffect
from lakewarden.settings.schema import Settings

__all__ = ["PolicyInEffect", "Settings", "load_settings", "redact"]
