/** A file that cannot be loaded. */
throw new Error("no such setting");
