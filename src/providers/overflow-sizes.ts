/** The tokens that fit, and those of the request. */
export type OverflowSizes = { readonly limit?: number; readonly used?: number };

const aNumber = String.raw`(?<![\w.,-])\d+(?:,\d{3})*(?![\w-]|[.,]\d)`;
const limitBefore = new RegExp(
  `(?:max(?:imum)?|limit|allowed|up to|at most|only|window|size|length|n_ctx|less than|cannot exceed|>|<=)[^\\d\\n]{0,40}?(${aNumber})`,
  'i',
);

/** Smaller numbers are counts of something else, or a difference. */
const leastSize = 256;

/** The sizes in the words about an overflow: what was sent is more than what fits. */
export function sizesIn(text: string, known: ReadonlyMap<'limit' | 'used', number>): OverflowSizes | undefined {
  const numbers = [...text.slice(0, 4_096).matchAll(new RegExp(aNumber, 'g'))]
    .map(([digits]) => Number(digits.replaceAll(',', '')))
    .filter((number) => number >= leastSize);
  const sum = new RegExp(`(${aNumber}) \\+ (${aNumber}) > (${aNumber})`).exec(text)?.slice(1).map(Number);
  const [one, other] = numbers;
  const isPair = new Set(numbers).size === 2 && one !== undefined && other !== undefined;
  const stated = limitBefore.exec(text)?.[1]?.replaceAll(',', '');
  const limit =
    known.get('limit') ??
    sum?.[2] ??
    (isPair ? Math.min(...numbers) : Number(stated) >= leastSize ? Number(stated) : undefined);
  const used =
    known.get('used') ??
    (sum ? (sum[0] ?? 0) + (sum[1] ?? 0) : numbers.find((number) => limit !== undefined && number > limit));
  if (limit === undefined && used === undefined) return undefined;
  return { ...(limit === undefined ? {} : { limit }), ...(used === undefined ? {} : { used }) };
}
