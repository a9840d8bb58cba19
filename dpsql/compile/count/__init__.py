"""SQL that counts private rows on a public grid."""
