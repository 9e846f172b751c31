const maxProblems = 10;
const maxLength = 1_000;

/** The place of a value inside the arguments, as a model reads it: `arguments.days[0].name`. */
export function argumentPath(keys: readonly PropertyKey[]): string {
  return keys.reduce<string>((path, key) => path + accessOf(key), 'arguments');
}

/** One text of at most 1,000 characters for all that is wrong; what does not fit is counted. Repetitions are left out. */
export function problemText(problems: readonly string[]): string {
  const all = [...new Set(problems)];
  const shown: string[] = [];
  let length = 0;
  for (const problem of all.slice(0, maxProblems)) {
    if (shown.length > 0 && length + problem.length > maxLength) break;
    shown.push(shortened(problem));
    length += problem.length + 2;
  }
  const rest = all.length - shown.length;
  return rest === 0 ? shown.join('; ') : `${shown.join('; ')}; and ${rest} more`;
}

function accessOf(key: PropertyKey): string {
  const text = String(key);
  if (/^\d+$/.test(text)) return `[${text}]`;
  return /^[A-Za-z_$][\w$]*$/.test(text) ? `.${text}` : `[${JSON.stringify(text)}]`;
}

function shortened(problem: string): string {
  return problem.length <= maxLength ? problem : `${problem.slice(0, maxLength)}…`;
}
