/** Checks whether the installed packages are those of the lockfile. */

/** @typedef {{ packages: Record<string, { version?: string, integrity?: string }> }} Lockfile */

/**
 * @param {Lockfile} lockfile
 * @param {Lockfile} hidden what npm left in node_modules when it installed: the lockfile without its root
 */
export function isInstalled(lockfile, hidden) {
  const { "": _root, ...wanted } = lockfile.packages;
  const packages = Object.entries(wanted);
  return (
    packages.length === Object.keys(hidden.packages).length &&
    packages.every(([name, { version, integrity }]) => {
      const found = hidden.packages[name];
      return found !== undefined && found.version === version && found.integrity === integrity;
    })
  );
}
