const suffixes = [
  'ations',
  'ation',
  'ators',
  'ator',
  'ating',
  'ates',
  'ated',
  'ate',
  'ions',
  'ion',
  'ings',
  'ing',
].concat(['ies', 'ers', 'ors', 'er', 'or', 'ed', 'es', 's', 'e', 'y']);

const idle: ReadonlySet<string> = new Set(
  (
    'a an and any are as at be but by can could do does for from give has have how i if in into is it its just me my now of on ' +
    'or please so some tell that the their them then there these this those to up us use was we were what when where which ' +
    'who why will with would you your'
  ).split(' '),
);

/** A word without its ending, so that `calculator`, `calculate` and `calculation` are one. */
export function stemOf(word: string): string {
  const lower = word.toLowerCase();
  const suffix = suffixes.find((ending) => lower.endsWith(ending) && lower.length - ending.length >= 3);
  return suffix === undefined ? lower : lower.slice(0, -suffix.length);
}

/** The words of a name or a string, in lower case: `readFile`, `read_file` and `read file` are the same two. */
export function wordsOf(text: string): readonly string[] {
  return (
    text
      .replace(/([a-z\d])([A-Z])/g, '$1 $2')
      .toLowerCase()
      .match(/[\p{L}\d]+/gu) ?? []
  );
}

/** The stems of the words that carry a meaning. */
export function stemsOf(text: string): ReadonlySet<string> {
  return new Set(
    wordsOf(text)
      .filter((word) => !idle.has(word))
      .map(stemOf),
  );
}

export function sameStems(...words: readonly string[]): ReadonlySet<string> {
  return new Set(words.flatMap((list) => list.split(' ')).map(stemOf));
}

/** `a`, `a and b`, `a, b and c`; of more than `most` only the first and how many there are besides. */
export function listed(items: readonly string[], most = items.length): string {
  const shown = items.length > most ? [...items.slice(0, most), `${items.length - most} more`] : items;
  if (shown.length < 2) return shown.join('');
  return `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}

/** `1 file`, `2 files`, `3 matches`. */
export function counted(count: number, noun: string): string {
  const plural = /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}${noun.endsWith('h') ? 'es' : 's'}`;
  return `${count} ${count === 1 ? noun : plural}`;
}
