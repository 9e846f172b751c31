/** base32hex (RFC 4648, section 7) in lower case: its digits sort as their values do. */
const digits = '0123456789abcdefghijklmnopqrstuv';

/**
 * An id as the name of a file: no separator, no dot, different for ids that differ only in case also where the file system does not
 * tell them apart, and in the same order as the ids. 128 characters become 205, less than the 255 that file systems take.
 */
export function fileNameOf(id: string): string {
  let name = '';
  let rest = 0;
  let bits = 0;
  for (const byte of Buffer.from(id, 'utf8')) {
    rest = (rest << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) name += digits[(rest >> (bits - 5)) & 31];
    rest &= 31;
  }
  return bits === 0 ? name : name + digits[(rest << (5 - bits)) & 31];
}

/** The id that `fileNameOf` wrote so. */
export function idOfFileName(name: string): string {
  const bytes: number[] = [];
  let rest = 0;
  let bits = 0;
  for (const digit of name) {
    rest = ((rest << 5) | digits.indexOf(digit)) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push((rest >> bits) & 255);
  }
  return Buffer.from(bytes).toString('utf8');
}
