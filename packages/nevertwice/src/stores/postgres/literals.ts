/** Strings in the text of a statement, for connections of the application, whose settings the store does not know. */

/** The statement with its text parameters as literals. */
export function withLiterals(text: string, parameters: readonly string[]): string {
  return text.replace(/\$(\d+)::text/g, (_, number) => literal(parameters[Number(number) - 1] as string));
}

/** Characters that mean the same in every setting of a connection, and nothing to a query builder. */
const PLAIN = /^[\w-]*$/;

/** A string, unless it is plain as its UTF-8 bytes, so that no setting of the connection can change its meaning. */
export function literal(text: string): string {
  return PLAIN.test(text)
    ? `'${text}'::text`
    : `convert_from(decode('${Buffer.from(text, "utf8").toString("hex")}', 'hex'), 'UTF8')`;
}
