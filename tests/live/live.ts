import { parseArgs } from 'node:util';
import type { LLMProvider } from 'millrace';
import { createProvider, type VendorName, vendorNames } from 'millrace/ai-sdk';
import { vendors } from 'millrace/internals';
import { Recording } from './recording.ts';
import { type Scenario, scenarios } from './scenarios.ts';

/** The model that is asked where only the vendor is named: small, and with all that the scenarios need. */
const models: Partial<Readonly<Record<VendorName, string>>> = {
  openai: 'gpt-5.6-sol',
  'openai-chat': 'gpt-4o-mini',
  anthropic: 'claude-sonnet-4-6',
  google: 'gemini-3.5-flash',
  mistral: 'mistral-large-latest',
  deepseek: 'deepseek-v4-flash',
};

const usage = `Usage: npm run test:live -- VENDOR… [--only SCENARIO] [--record DIR] [--base-url URL]

VENDOR is one of ${vendorNames.join(', ')}, or VENDOR:MODEL.`;

interface Row {
  readonly scenario: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** What a run reads and writes besides the network. */
export interface LiveHost {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly write: (text: string) => void;
}

/**
 * Plays the scenarios against vendors and prints a table for each. Resolves with the exit code: 0 all hold, 1 some do not, 2 usage, or a key is
 * missing.
 */
export async function runLive(argv: readonly string[], host: LiveHost): Promise<number> {
  const { write } = host;
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(argv);
  } catch (error) {
    write(`${error instanceof Error ? error.message : String(error)}\n\n${usage}\n`);
    return 2;
  }
  const { positionals, values } = parsed;
  const chosen = scenarios.filter(({ name }) => values.only === undefined || name.includes(values.only));
  if (positionals.length === 0 || chosen.length === 0) {
    write(`${usage}\n\nThe scenarios are ${scenarios.map(({ name }) => name).join(', ')}.\n`);
    return 2;
  }
  let code = 0;
  for (const named of positionals) code = Math.max(code, await playVendor(named, { ...values, chosen }, host));
  return code;
}

function parse(argv: readonly string[]) {
  return parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: { 'base-url': { type: 'string' }, record: { type: 'string' }, only: { type: 'string' } },
  });
}

interface Run {
  readonly 'base-url'?: string | undefined;
  readonly record?: string | undefined;
  readonly chosen: readonly Scenario[];
}

async function playVendor(named: string, run: Run, { env, write }: LiveHost): Promise<number> {
  const [prefix = '', ...rest] = named.split(':');
  const name = vendorNames.find((known) => known === prefix);
  const model = rest.join(':') || (name === undefined ? undefined : models[name]);
  if (name === undefined || model === undefined) {
    write(`${named} needs a vendor and a model, as VENDOR:MODEL; the vendors are ${vendorNames.join(', ')}.\n`);
    return 2;
  }
  const { keyVariables } = vendors[name];
  const apiKey = keyVariables.map((variable) => env[variable]?.trim()).find((value) => value);
  if (apiKey === undefined && keyVariables.length > 0) {
    write(`${name} is not played: no key, set ${keyVariables.join(' or ')}.\n`);
    return 2;
  }
  const recording =
    run.record === undefined ? undefined : new Recording(run.record, name, apiKey === undefined ? [] : [apiKey]);
  const provider = await createProvider(`${name}:${model}`, {
    ...(apiKey !== undefined && { apiKey }),
    ...(run['base-url'] !== undefined && { baseUrl: run['base-url'] }),
    ...(recording && { fetch: recording.fetch }),
  });
  write(`${name}:${model}\n`);
  let failed = 0;
  for (const scenario of run.chosen) {
    recording?.begin(scenario.name);
    const row = await playScenario(scenario, provider);
    if (!row.ok) failed += 1;
    const detail = apiKey === undefined ? row.detail : row.detail.replaceAll(apiKey, '[secret]');
    write(`  ${row.ok ? 'holds' : 'FAILS'}  ${row.scenario.padEnd(26)} ${detail}\n`);
  }
  await recording?.done();
  write(`  ${run.chosen.length - failed} of ${run.chosen.length} hold\n`);
  return failed === 0 ? 0 : 1;
}

async function playScenario({ name, play }: Scenario, provider: LLMProvider): Promise<Row> {
  try {
    return { scenario: name, ok: true, detail: await play(provider) };
  } catch (error) {
    return { scenario: name, ok: false, detail: error instanceof Error ? error.message : String(error) };
  }
}
