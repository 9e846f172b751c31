import { createHash } from 'node:crypto';
import { type Message, textOf } from 'millrace';
import { Random } from '../random.ts';

/** What happens to a call of a tool whose process died while it ran. */
export type Policy = 'fail' | 'retry' | 'reconcile' | 'guess';

/** The tools of the harness: every policy, alone and in company. */
export const tools = {
  pay: { policy: 'fail' },
  wire: { policy: 'fail', sequential: true },
  put: { policy: 'retry', idempotent: true },
  look: { policy: 'retry', readOnly: true },
  book: { policy: 'reconcile' },
  guess: { policy: 'guess' },
  breaks: { policy: 'fail', throws: true },
  /** Of trees only: somebody has to approve it. */
  sign: { policy: 'fail', needsApproval: true },
} as const satisfies Record<
  string,
  {
    policy: Policy;
    sequential?: boolean;
    idempotent?: boolean;
    readOnly?: boolean;
    throws?: boolean;
    needsApproval?: boolean;
  }
>;

export type ToolName = keyof typeof tools;

/** `vanish` is not offered, and `garbled` arguments are not JSON: such a call is refused and never runs. */
export interface PlannedCall {
  readonly tool: ToolName | 'vanish';
  readonly arguments: string;
}

/** A call that another agent answers with a turn of its own, or that hands the turn to it. */
export interface AgentCall {
  readonly tool: string;
  readonly agent: string;
  /** Of that agent's turn. Absent where the turn is handed over. */
  readonly seed?: number;
  readonly arguments: string;
}

/** The calls of each iteration but the last, which answers. */
export type Plan = readonly (readonly (PlannedCall | AgentCall)[])[];

export function isAgentCall(call: PlannedCall | AgentCall): call is AgentCall {
  return 'agent' in call;
}

/** The id that the model gives a call of its answer: vendors repeat ids between answers, and some within one. */
export function callIdAt(index: number): string {
  return `call-${index % 3}`;
}

/** Whether a call repeats an earlier one of its answer: the same id, tool and arguments. It is left out then. */
export function isRepeated(calls: Plan[number], index: number): boolean {
  const call = calls[index];
  return calls
    .slice(0, index)
    .some(
      (earlier, at) =>
        callIdAt(at) === callIdAt(index) && earlier.tool === call?.tool && earlier.arguments === call.arguments,
    );
}

const names: readonly [ToolName, ...ToolName[]] = ['pay', 'wire', 'put', 'look', 'book', 'guess', 'breaks'];

/** The turn that a seed stands for. */
export function planOf(seed: number): Plan {
  const random = new Random(seed);
  return Array.from({ length: random.int(2, 5) }, () =>
    Array.from({ length: random.int(1, 5) }, () => plannedCall(random)),
  );
}

/** A call of this tool, or of any. `longMs`: how long it takes, in milliseconds; default a few, now and then as long as a renewal of the lease is away. */
export function plannedCall(random: Random, tool?: ToolName, longMs?: number): PlannedCall {
  const ms = longMs ?? (random.chance(0.06) ? random.int(60, 160) : random.int(0, 6));
  if (tool !== undefined) return { tool, arguments: JSON.stringify({ ms }) };
  if (random.chance(0.04)) return { tool: 'vanish', arguments: '{}' };
  if (random.chance(0.04)) return { tool: 'pay', arguments: '{"ms":' };
  return { tool: random.pick(names), arguments: JSON.stringify({ ms }) };
}

/** What the caller of a planned turn says. */
export function promptOf(seed: number): readonly Message[] {
  return [{ role: 'user', content: String(seed) }];
}

export function seedIn(messages: readonly Message[]): number {
  return Number(textOf(messages.findLast(isPrompt)?.content));
}

/** What was said since the turn was asked for: before it may stand a conversation, and what agents tell each other is no number. */
export function since(messages: readonly Message[]): readonly Message[] {
  return messages.slice(messages.findLastIndex(isPrompt) + 1);
}

export function isPrompt({ role, content }: Message): boolean {
  return role === 'user' && /^\d+$/.test(textOf(content));
}

/** What the user tells a turn that runs. */
export const steering: Message = { role: 'user', content: 'Please hurry.' };

/** What stands in the conversation of a tree before its turn. */
export const earlierTalk: readonly Message[] = [
  { role: 'user', content: 'Are you there?' },
  { role: 'assistant', content: 'I am.' },
];

/** How many messages of an earlier turn a model reads. */
export function earlierIn(messages: readonly Message[]): number {
  const before = messages.slice(0, messages.findLastIndex(isPrompt));
  return before.filter(({ content }) => earlierTalk.some((message) => message.content === textOf(content))).length;
}

/** How often a model was told it. */
export function toldIn(messages: readonly Message[]): number {
  return messages.filter(({ role, content }) => role === 'user' && textOf(content) === steering.content).length;
}

/** The final answer: it depends on every result that the model was told. */
export function finalText(messages: readonly Message[]): string {
  const results = since(messages).flatMap((message) => (message.role === 'tool' ? [textOf(message.content)] : []));
  return `${results.length} results: ${createHash('sha1').update(results.join('\n')).digest('hex')}`;
}
