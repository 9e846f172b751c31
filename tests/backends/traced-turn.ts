import type { SpanExporter } from '@opentelemetry/sdk-trace-node';
import { agent, LocalToolProvider, tool } from 'millrace';
import { type FinishedSpan, type StartTracingOptions, startTracing } from 'millrace/otel';
import { scriptedLLM } from 'millrace/testing';

const tools = new LocalToolProvider([
  tool({ name: 'good', description: 'Works.', parameters: { type: 'object' }, execute: () => 'fine' }),
  tool({
    name: 'bad',
    description: 'Fails.',
    parameters: { type: 'object' },
    execute: () => {
      throw new RangeError('no such unit');
    },
  }),
]);

/** The spans of `agent.turn` as `name < name of its parent`, sorted. */
export const turnSpans: readonly string[] = [
  'agent.execute < agent.turn',
  'agent.turn < ',
  'hook[conversation.afterEnd] < agent.execute',
  'hook[conversation.beforeTurn] < agent.execute',
  'iteration[1] < agent.execute',
  'iteration[2] < agent.execute',
  'llm.call < iteration[1]',
  'llm.call < iteration[2]',
  'tool[bad] < tools.execute',
  'tool[good] < tools.execute',
  'tools.execute < iteration[1]',
];

export interface BackendSpan extends Pick<FinishedSpan, 'name'> {
  readonly id: string;
  readonly parentId: string | undefined;
}

/** Spans as a backend shows them, in the form of {@link turnSpans}. */
export function withParents(spans: readonly BackendSpan[]): readonly string[] {
  const names = new Map(spans.map(({ id, name }) => [id, name]));
  return spans.map(({ name, parentId }) => `${name} < ${names.get(parentId ?? '') ?? ''}`).sort();
}

/** Runs a turn of two model calls and two tools, one of which fails, and sends its spans. */
export async function runTracedTurn(
  options: StartTracingOptions & { readonly exporter?: SpanExporter },
): Promise<void> {
  const tracing = startTracing({ serviceName: 'backend-test', flushOnSignals: [], ...options });
  try {
    const usage = { promptTokens: 30, completionTokens: 4, totalTokens: 34 };
    const provider = scriptedLLM([
      {
        toolCalls: [
          { name: 'good', arguments: {} },
          { name: 'bad', arguments: {} },
        ],
        usage,
      },
      { text: 'Done.', usage },
    ]);
    const bot = agent({ name: 'bot', provider, toolProviders: [tools], contextId: 'session-1', captureContent: true });
    await bot.run('Try both.');
  } finally {
    await tracing.shutdown();
  }
}

/** Asks every 250 ms until there is an answer. */
export async function within<T>(ms: number, ask: () => Promise<T | undefined>): Promise<T> {
  for (const until = Date.now() + ms; Date.now() < until; ) {
    const answer = await ask().catch(() => undefined);
    if (answer !== undefined) return answer;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  throw new Error(`There was no answer within ${ms} ms.`);
}
