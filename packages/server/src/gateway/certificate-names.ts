/**
 * The issuer and the subject of a certificate, as their bytes. Their texts do not tell all names apart: a text hides which
 * type of string a name was written in, and how names of several lines were joined.
 */

/** The names in the DER of a certificate that was parsed before, so that its structure is known to be right. */
export function namesIn(certificate: Buffer): Buffer {
  const toBeSigned = contentOf(contentOf(certificate));
  // [0] version, if it is not 1; serial number, algorithm, issuer, validity, subject.
  const fields = elementsOf(toBeSigned);
  const isVersioned = fields[0]?.[0] === 0xa0;
  const [, , issuer, , subject] = isVersioned ? fields.slice(1) : fields;
  if (issuer === undefined || subject === undefined) throw new Error("the certificate has no names");
  // Each begins with its own length, so that no two pairs make the same bytes.
  return Buffer.concat([issuer, subject]);
}

/** The first six elements are all that is needed. */
function elementsOf(content: Buffer): readonly Buffer[] {
  const elements: Buffer[] = [];
  for (let at = 0; at < content.length && elements.length < 6; ) {
    const { end } = extentOf(content.subarray(at));
    elements.push(content.subarray(at, at + end));
    at += end;
  }
  return elements;
}

function contentOf(element: Buffer): Buffer {
  const { start, end } = extentOf(element);
  return element.subarray(start, end);
}

/** Where the content of the element that begins here starts and ends. */
function extentOf(element: Buffer): { readonly start: number; readonly end: number } {
  const first = element[1] ?? 0;
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
  const start = 2 + lengthBytes;
  const length = lengthBytes === 0 ? first : element.readUIntBE(2, lengthBytes);
  return { start, end: start + length };
}
