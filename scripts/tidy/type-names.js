/** A type name has one meaning: no two files of the packages declare a type, an interface or a class of one name. */
import ts from "typescript";
import { allSourcesOf, walk } from "./source.js";

/** @typedef {import("./source.js").File} File */

/** @param {readonly File[]} files */
export function typeNameProblems(files) {
  return [...declaredTypes(files)].flatMap(([name, paths]) =>
    paths.length === 1 ? [] : [`the type ${name} is declared in ${paths.join(", ")}; rename all but one`],
  );
}

/**
 * Where each type is declared, by its name.
 *
 * @param {readonly File[]} files
 */
export function declaredTypes(files) {
  /** @type {Map<string, string[]>} */
  const declared = new Map();
  for (const file of allSourcesOf(files)) {
    /** @type {Set<string>} */
    const names = new Set();
    walk(file, (node) => {
      // Only what a module declares: a namespace extends the types of another package under their own names.
      if (!ts.isSourceFile(node.parent ?? node)) return;
      if (ts.isTypeAliasDeclaration(node) || ts.isInterfaceDeclaration(node)) names.add(node.name.text);
      else if (ts.isClassDeclaration(node) && node.name !== undefined) names.add(node.name.text);
    });
    for (const name of names) declared.set(name, [...(declared.get(name) ?? []), file.path]);
  }
  return declared;
}
