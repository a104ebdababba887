/** The slot of a key in a Redis Cluster, which decides the server that has the key. */

const SLOTS = 16_384;
const POLYNOMIAL = 0x1021;

/** CRC-16/XMODEM of each byte, as the specification of Redis Cluster defines it. */
const CRC16 = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ POLYNOMIAL : crc << 1;
  return crc;
});

const encoder = new TextEncoder();

export function keySlot(key: string): number {
  let crc = 0;
  for (const byte of encoder.encode(hashTag(key)))
    crc = ((crc << 8) & 0xffff) ^ (CRC16[(crc >> 8) ^ byte] as number);
  return crc % SLOTS;
}

/** The text between the first `{` and the next `}`, or the whole key if there is none. */
function hashTag(key: string): string {
  const start = key.indexOf("{");
  const end = start < 0 ? -1 : key.indexOf("}", start + 1);
  return end > start + 1 ? key.slice(start + 1, end) : key;
}
