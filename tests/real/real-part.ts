import { describe } from '@jest/globals';

/** What `local-parts.mjs` or `find-parts.mjs` found of a part. */
export interface RealPart {
  readonly version?: string;
  /** Why it cannot be had. */
  readonly missing?: string;
  /** The program, where the test starts it. */
  readonly bin?: string;
  /** Its address, where it runs already. */
  readonly url?: string;
}

export type PartName =
  | (
      | 'redis'
      | 'sentinel'
      | 'postgres'
      | 'script'
      | 'swift'
      | 'chromium'
      | 'openssl'
      | 'litellm'
      | 'jaeger'
      | 'mcp'
      | 'mcp-conformance'
      | 'ai-sdk-7'
    )
  | ('front-ends' | 'openai-clients' | 'vendors' | 'bun' | 'deno' | 'mcp-python' | 'openai-agents-python')
  | ('a2a' | 'a2a-python-1' | 'a2a-python-0.3');

export function realPart(name: PartName): RealPart {
  const found: Readonly<Record<string, RealPart>> = JSON.parse(process.env['MILLRACE_REAL_PARTS'] ?? '{}');
  return found[name] ?? { missing: 'nobody looked for it: run npm test or npm run test:e2e' };
}

/** Tests that need real parts. Where one cannot be had they are skipped, and named in the end with what is missing. */
export function describeReal(names: readonly PartName[], title: string, define: () => void): void {
  const tagged = `${title} ${names.map((name) => `[${name}]`).join('')}`;
  if (names.some((name) => realPart(name).missing !== undefined)) describe.skip(tagged, define);
  else describe(tagged, define);
}
