import type { Command } from 'commander';
import { lastValueFrom, tap } from 'rxjs';
import type { LLMCallParams, LLMProvider, LLMResponse, Message, ToolDefinition } from '../../core/contracts/index.ts';
import { shownUrl } from '../../observability/otel-environment.ts';
import { type VendorName, vendorNames, vendors } from '../../providers/ai-sdk/vendors.ts';
import { type CommandHost, type Interruption, withInterruption } from '../command-host.ts';
import { type Attempt, diagnose } from '../diagnosis.ts';
import { duration } from '../format.ts';
import { connectModel, type ModelFlags, modelSettings } from '../model.ts';
import type { Environment, Terminal } from '../terminal.ts';
import { addModelFlags } from '../turn-flags.ts';

interface DoctorFlags extends ModelFlags {
  readonly json?: boolean;
}

const help = `
Examples:
  $ millrace doctor --model anthropic:claude-opus-4-8
  $ millrace doctor --model qwen3 --base-url http://localhost:8000/v1
  $ millrace doctor --json

Exit codes: 0 all works, 1 something does not.`;

/** Adds `millrace doctor`: tries a model with small requests, and says what works and what is wrong. */
export function addDoctorCommand(program: Command, host: CommandHost): void {
  addModelFlags(program.command('doctor'))
    .summary('try a model and say what is wrong')
    .description('Try a model with four small requests, and say what works, what is wrong, and what to do about it.')
    .option('--json', 'write one JSON object to stdout, and nothing else')
    .addHelpText('after', help)
    .action((flags: DoctorFlags) => withInterruption(host, (interruption) => examine(flags, host, interruption)));
}

/** One thing that was tried. */
interface Finding {
  readonly check: 'keys' | 'model' | 'answer' | 'stream' | 'tools';
  readonly ok: boolean;
  /** One sentence. */
  readonly message: string;
  readonly code?: string;
}

async function examine(flags: DoctorFlags, host: CommandHost, interruption: Interruption): Promise<void> {
  const { terminal } = host;
  const findings: Finding[] = [];
  const report = (finding: Finding): void => {
    findings.push(finding);
    if (!flags.json) void terminal.stdout.write(`${lineOf(finding, terminal)}\n`);
  };
  await interruption.race(check({ flags, env: terminal.env, signal: interruption.signal, report }));
  const ok = findings.every((finding) => finding.ok);
  if (flags.json) void terminal.stdout.write(`${JSON.stringify({ ok, checks: findings })}\n`);
  if (!ok) host.exitCode = 1;
}

function lineOf({ check, ok, message }: Finding, { style }: Terminal): string {
  const { done, failed } = style.glyphs;
  return `${ok ? style.green(done) : style.red(failed)} ${style.bold(check.padEnd(6))}  ${message}`;
}

interface Examination {
  readonly flags: DoctorFlags;
  readonly env: Environment;
  readonly signal: AbortSignal;
  readonly report: (finding: Finding) => void;
}

/** Each request stops after this. */
const timeoutMs = 60_000;

async function check({ flags, env, signal, report }: Examination): Promise<void> {
  report({ check: 'keys', ok: true, message: keysIn(env) });
  const model = flags.model ?? env['OPENAI_MODEL'] ?? env['LITELLM_MODEL'] ?? 'demo';
  const attempt = { model, keySource: keySourceOf(flags, model), hasTools: false };
  const tried = async (name: Finding['check'], hasTools: boolean, work: () => Promise<string>): Promise<boolean> => {
    try {
      report({ check: name, ok: true, message: await work() });
      return true;
    } catch (thrown) {
      const { code, sentence } = diagnose(thrown, { ...attempt, hasTools } satisfies Attempt);
      report({ check: name, ok: false, message: `${sentence} (${code})`, code });
      return false;
    }
  };
  let connection: Awaited<ReturnType<typeof connectModel>> | undefined;
  try {
    const connects = await tried('model', false, async () => {
      const settings = modelSettings(flags, env);
      connection = await connectModel(settings, 0);
      await connection.provider.prepare?.();
      return [`${connection.label} is asked at ${shownUrl(connection.baseUrl)}`, ...settings.warnings].join('; ');
    });
    if (!connects || connection === undefined) return;
    const { provider } = connection;
    const withSignal = (): AbortSignal => AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const answers = await tried('answer', false, () => askWhole(provider, withSignal()));
    if (!answers) return;
    await tried('stream', false, () => askStreamed(provider, withSignal()));
    await tried('tools', true, () => askWithTool(provider, withSignal));
  } finally {
    await connection?.close();
  }
}

/** The variables that hold a key, never a key. */
function keysIn(env: Environment): string {
  const all = vendorNames.flatMap((name) => vendors[name].keyVariables);
  const names = [...new Set(all)].filter((name) => (env[name]?.trim() ?? '') !== '');
  return names.length === 0
    ? 'no key of a vendor is set in the environment'
    : `set in the environment: ${names.join(', ')}`;
}

function keySourceOf({ apiKeyEnv }: DoctorFlags, model: string): string {
  if (apiKeyEnv !== undefined) return apiKeyEnv;
  const prefix: VendorName | undefined = vendorNames.find((name) => model.startsWith(`${name}:`));
  return prefix === undefined ? 'OPENAI_API_KEY' : vendors[prefix].keyVariables.join(' or ') || 'the environment';
}

const question: Message = { role: 'user', content: 'What is 12 * 7?' };

async function askWhole(provider: LLMProvider, signal: AbortSignal): Promise<string> {
  const started = performance.now();
  const answer = await provider.call({ messages: [question], signal });
  const { totalTokens } = answer.usage ?? {};
  const tokens = totalTokens === undefined ? '' : `, ${totalTokens} tokens`;
  return `it answers (${duration(performance.now() - started)}${tokens})`;
}

async function askStreamed(provider: LLMProvider, signal: AbortSignal): Promise<string> {
  if (provider.stream === undefined || provider.capabilities?.streaming === false) return 'it does not stream';
  let pieces = 0;
  await streamed(provider, { messages: [question], signal }, () => {
    pieces += 1;
  });
  return `it streams (${pieces} pieces)`;
}

const calculate: ToolDefinition = {
  type: 'function',
  function: {
    name: 'calculate',
    description: 'Computes an arithmetic expression.',
    parameters: {
      type: 'object',
      properties: { expression: { type: 'string' } },
      required: ['expression'],
      additionalProperties: false,
    },
  },
};

/** One call of a tool, and an answer to its result. */
async function askWithTool(provider: LLMProvider, signal: () => AbortSignal): Promise<string> {
  const messages: readonly Message[] = [
    { role: 'system', content: 'Compute with the tool `calculate`, never yourself.' },
    question,
  ];
  const first = await streamed(provider, { messages, tools: [calculate], signal: signal() });
  const { message } = first;
  const calls = first.toolCalls ?? (message.role === 'assistant' ? message.toolCalls : undefined) ?? [];
  if (calls.length === 0 || message.role !== 'assistant')
    throw new Error('the model answered without calling the tool that it had to call: use a model that calls tools');
  const results = calls.map(({ id }) => ({ role: 'tool' as const, toolCallId: id, content: '84' }));
  const history = [...messages, { ...message, toolCalls: calls }, ...results];
  await streamed(provider, { messages: history, tools: [calculate], signal: signal() });
  return 'it calls a tool and answers with its result';
}

async function streamed(
  provider: LLMProvider,
  params: LLMCallParams,
  onPiece: () => void = () => {},
): Promise<LLMResponse> {
  if (provider.stream === undefined) return provider.call(params);
  const pieces = provider.stream(params).pipe(
    tap(({ type }) => {
      if (type === 'text') onPiece();
    }),
  );
  const last = await lastValueFrom(pieces);
  if (last.type === 'done') return last.response;
  throw new Error('the stream ended without the end of the answer: try again');
}
