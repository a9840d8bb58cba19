"""SQL that scores rows with a released forest."""
