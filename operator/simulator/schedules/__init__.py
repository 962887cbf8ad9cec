"""Ten busy minutes of a drawn world with faults, many times over: every value that the resource allows comes up."""
