/**
 * Throws where a guardrail gave what is no verdict, so that nothing passes by a mistake. `words` are the members that say something to
 * somebody: one of them, or `replace`.
 */
export function assertVerdict(name: string, verdict: unknown, words: readonly string[]): void {
  if (verdict === undefined || verdict === null) return;
  const given = new Map<string, unknown>(typeof verdict === 'object' ? Object.entries(verdict) : []);
  if (given.get('replace') !== undefined || words.some((word) => typeof given.get(word) === 'string')) return;
  const forms = [...words.map((word) => `{ ${word}: "…" }`), '{ replace }'];
  throw new TypeError(`the guardrail "${name}" gave no verdict; answer nothing, or ${forms.join(' or ')}`);
}
