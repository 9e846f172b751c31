const fn = '(?:sqrt|sin|cos|tan|log|ln|exp|abs|round)';
const number = String.raw`\d+(?:\.\d+)?`;
const before = String.raw`(?<=[\d)%])\s*`;
const after = String.raw`\s*(?=[-(\d]|pi\b|${fn}\()`;

/** How people say arithmetic, and how it is written. */
const spoken: readonly (readonly [RegExp, string])[] = [
  [/(\d),(?=\d{3}(?!\d))/g, '$1'],
  [/[×·]/g, '*'],
  [/÷/g, '/'],
  [/[−–]/g, '-'],
  [/\*\*/g, '^'],
  [new RegExp(`(${number})\\s*(?:%|percent) of\\s+(${number})`, 'gi'), '($1 / 100) * $2'],
  [new RegExp(`(?:the )?square root of\\s+(${number})`, 'gi'), 'sqrt($1)'],
  [new RegExp(`\\bmultiply\\s+(${number})\\s+(?:by|with|and)\\s+(${number})`, 'gi'), '$1 * $2'],
  [new RegExp(`\\bdivide\\s+(${number})\\s+by\\s+(${number})`, 'gi'), '$1 / $2'],
  [new RegExp(`\\badd\\s+(${number})\\s+(?:and|to)\\s+(${number})`, 'gi'), '$1 + $2'],
  [new RegExp(`\\bsubtract\\s+(${number})\\s+from\\s+(${number})`, 'gi'), '$2 - $1'],
  [new RegExp(`${before}\\b(?:multiplied by|times|x)\\b${after}`, 'gi'), ' * '],
  [new RegExp(`${before}\\bplus\\b${after}`, 'gi'), ' + '],
  [new RegExp(`${before}\\bminus\\b${after}`, 'gi'), ' - '],
  [new RegExp(`${before}\\b(?:divided by|over)\\b${after}`, 'gi'), ' / '],
  [new RegExp(`${before}\\b(?:to the power of|raised to)\\b${after}`, 'gi'), '^'],
  [new RegExp(`${before}\\bmodulo\\b${after}`, 'gi'), ' mod '],
  [/(?<=[\d)])\s*squared\b/gi, '^2'],
  [/(?<=[\d)])\s*cubed\b/gi, '^3'],
];

const run = new RegExp(
  `(?<![\\w.:/-])[-(\\s]*(?:${fn}\\(|\\d|pi\\b)(?:[\\d\\s.+\\-*/^%!()]|${fn}\\(|\\b(?:pi|mod)\\b)*`,
  'gi',
);
const operation = new RegExp(`(?:[\\d)%!]|pi)\\s*(?:[-+*/^%]|\\bmod\\b)\\s*[-+(]*(?:\\d|pi|${fn})|${fn}\\(`, 'i');
const date = /\d{4}-\d{2}/;
const asks =
  /\b(?:what(?:'s|s| is| are)|how much|calculate|compute|evaluate|work out|solve|result|equals?|sum|product|percent)\b/i;

/** The arithmetic that a question asks for, as an expression; undefined where it asks for none. */
export function expressionIn(question: string): string | undefined {
  const written = spoken.reduce((text, [words, symbol]) => text.replace(words, symbol), question);
  const found = (written.match(run) ?? [])
    .map((text) => balanced(text.replace(/(?:[\s+\-*/^.(]|\bmod)+$/, '').trim()))
    .filter((text) => operation.test(text) && !date.test(text))
    .sort((a, b) => b.length - a.length)[0];
  if (found === undefined) return undefined;
  const rest = written.replace(found, '').replace(/[\s=?.!]/g, '');
  return rest === '' || asks.test(question) || written !== question ? found.replace(/\s+/g, ' ') : undefined;
}

/** Without the brackets that have no partner at its ends. */
function balanced(text: string): string {
  const opened = text.split('(').length;
  const closed = text.split(')').length;
  if (opened > closed && text.startsWith('(')) return balanced(text.slice(1).trim());
  if (closed > opened && text.endsWith(')')) return balanced(text.slice(0, -1).trim());
  return text;
}
