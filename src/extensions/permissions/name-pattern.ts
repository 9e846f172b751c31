/** Whether a name is one of these; in each `*` stands for any characters: `write_*`. */
export function matchesName(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => expressionOf(pattern).test(name));
}

function expressionOf(pattern: string): RegExp {
  const parts = pattern.split('*').map((part) => part.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's');
}
