"""Tests of the audit: its arithmetic, its listening, what it says of the product, and what it finds when it must."""
