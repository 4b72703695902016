"""Executors of decoders and heads: torch (eager), native (compiled), cuda (captured), transformers."""
