/** The names most like `wanted`, the closest first: those that begin with it or hold it, then those a few letters away. */
export function closestNames(wanted: string, names: readonly string[], count = 3): readonly string[] {
  const key = wanted.toLowerCase();
  return names
    .map((name) => ({ name, distance: distanceOf(key, name.toLowerCase()) }))
    .filter(({ distance }) => distance <= Math.max(2, Math.floor(key.length / 3)))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, count)
    .map(({ name }) => name);
}

function distanceOf(wanted: string, name: string): number {
  if (wanted.length >= 3 && name.startsWith(wanted)) return 0;
  if (wanted.length >= 3 && name.includes(wanted)) return 1;
  return editDistance(wanted, name);
}

/** How many letters have to be put in, left out or replaced to make one text of the other. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...a].entries()) {
    row = nextRow(row, { letter, first: index + 1, other: b });
  }
  return row.at(-1) ?? 0;
}

function nextRow(
  row: readonly number[],
  { letter, first, other }: { letter: string; first: number; other: string },
): number[] {
  const next = [first];
  for (let column = 1; column < row.length; column += 1) {
    const replaced = (row[column - 1] ?? 0) + (other[column - 1] === letter ? 0 : 1);
    next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
  }
  return next;
}
