/**
 * The issuer and the subject of a certificate, as bytes. Their text forms are not unique: they hide the string type of a
 * name, and how names of several lines were joined.
 */

/** Reads the names from the DER of a certificate. Node has parsed it before, so its structure is valid. */
export function certificateNames(certificate: Buffer): Buffer {
  const toBeSigned = readContent(readContent(certificate));
  // [0] version, if it is not 1; serial number, algorithm, issuer, validity, subject.
  const fields = readElements(toBeSigned);
  const isVersioned = fields[0]?.[0] === 0xa0;
  const [, , issuer, , subject] = isVersioned ? fields.slice(1) : fields;
  if (issuer === undefined || subject === undefined) throw new Error("the certificate has no names");
  // Each element starts with its length, so two different pairs never give the same bytes.
  return Buffer.concat([issuer, subject]);
}

/** Reads the first six elements, which are enough. */
function readElements(content: Buffer): readonly Buffer[] {
  const elements: Buffer[] = [];
  for (let at = 0; at < content.length && elements.length < 6; ) {
    const { end } = elementExtent(content.subarray(at));
    elements.push(content.subarray(at, at + end));
    at += end;
  }
  return elements;
}

function readContent(element: Buffer): Buffer {
  const { start, end } = elementExtent(element);
  return element.subarray(start, end);
}

/** Where the content of this element starts and ends. */
function elementExtent(element: Buffer): { readonly start: number; readonly end: number } {
  const first = element[1] ?? 0;
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
  const start = 2 + lengthBytes;
  const length = lengthBytes === 0 ? first : element.readUIntBE(2, lengthBytes);
  return { start, end: start + length };
}
