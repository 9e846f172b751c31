import { AgentLoopError, agent, retry, type TaskStateStore, tool } from 'millrace';
import { type LLMStep, scriptedLLM } from 'millrace/testing';

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** What the model says slowly, a word at a time. */
export const slowText = Array.from({ length: 30 }, (_, index) => `word${index} `).join('');

/** An agent whose model does what the user names: `answer`, `refund`, `book`, `slow`, `half`, `fail`, `list`: what it was given, and how often it said so. `onEffect`: called by each run of `refund` and `book`. */
export function assistant(taskStateStore: TaskStateStore, onEffect: () => void = () => {}) {
  let failures = 0;
  let lists = 0;
  const stepOf = ({
    messages,
  }: {
    readonly messages: readonly { readonly role: string; readonly content: unknown }[];
  }): LLMStep => {
    const at = messages.findLastIndex(({ role }) => role === 'user');
    const isFirst = messages.length === at + 1;
    const asked = String(messages[at]?.content);
    if (asked.includes('answer') && isFirst)
      return {
        reasoning: 'Hm.',
        text: ['Let me ', 'look.'],
        toolCalls: [
          { name: 'look_up', arguments: ['{"of":', '"apples"}'] },
          { name: 'look_up', arguments: ['{"of":', '"pears"}'] },
        ],
      };
    if (asked.includes('refund') && isFirst) return { text: 'I will.', toolCalls: [{ name: 'refund' }] };
    if (asked.includes('book') && isFirst) return { text: 'Booking.', toolCalls: [{ name: 'book' }] };
    if (asked.includes('list')) {
      lists++;
      return { text: `${messages.map(({ content }) => content).join(', ')} (${lists})` };
    }
    if (asked.includes('slow'))
      return { text: slowText.split(/(?<= )/).flatMap((word, index) => [word, pause(60 * index)]) };
    if (asked.includes('half') && failures++ === 0)
      return { text: 'Void ', error: new AgentLoopError('PROVIDER_SERVER', 'SECRET', { retryable: true }) };
    if (asked.includes('fail')) return { text: 'Half', error: new Error('SECRET') };
    return { text: asked.includes('half') ? 'Whole.' : 'All is done.' };
  };
  const look = tool({
    name: 'look_up',
    description: 'Looks.',
    parameters: { type: 'object', properties: { of: { type: 'string' } }, required: ['of'] },
    execute: ({ of }) => `found ${of}`,
  });
  const book = tool({
    name: 'book',
    description: 'Books.',
    parameters: { type: 'object' },
    execute: () => {
      onEffect();
      return 'booked';
    },
  });
  const refund = tool({
    name: 'refund',
    description: 'Refunds.',
    parameters: { type: 'object' },
    needsApproval: true,
    execute: () => {
      onEffect();
      return 'refunded';
    },
  });
  const provider = retry({ maxRetries: 1, initialDelayMs: 0 })(
    scriptedLLM(Array.from({ length: 1_000 }, () => stepOf)),
  );
  return agent({ id: 'assistant', provider, tools: [look, book, refund], taskStateStore, leaseMs: 3_000 });
}
