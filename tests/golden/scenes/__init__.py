"""The scenes, one file for a few commands. Importing them all fills the list."""

from tests.golden.scenes import applying, asking, checking, control, forecasting, planning, running, serving

ALL = (planning, applying, running, asking, control, checking, forecasting, serving)
