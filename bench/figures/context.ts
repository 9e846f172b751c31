import {
  contextManagement,
  type Extension,
  estimateTokens,
  type LLMProvider,
  type Message,
  windowHistory,
} from 'millrace';
import { engine } from '../engine.ts';
import { type FakeModel, fakeModel } from '../fake-model.ts';
import { race } from '../measure.ts';
import { printRows, type Row } from '../table.ts';

/** Of what the tool repeats: 2,250 characters. */
const times = 450;
const contextWindow = 16_000;

const summarizer: LLMProvider = {
  call: async () => ({ message: { role: 'assistant', content: 'Looked at things, found words. '.repeat(20) } }),
};

const managed = (): readonly Extension[] =>
  contextManagement({ compaction: { contextWindow, provider: summarizer }, window: { maxMessages: 200 } });

/** What managing the context costs, whether it grows with the history, and whether requests stay below the window. */
export async function measureContext(): Promise<void> {
  await measureCuts();
  await measureGrowth();
  await measureLongTurn();
}

/** One call of the window's hook, whose time is that of the cutter. */
async function measureCuts(): Promise<void> {
  const rows: Row[] = [];
  for (const messages of [1_000, 10_000, 100_000]) {
    const history = talk(messages);
    const [byCount, byTokens] = await race([
      { name: 'messages', run: async () => cut(history, windowHistory({ maxMessages: messages / 2 })) },
      {
        name: 'tokens',
        run: async () => cut(history, windowHistory({ maxMessages: messages, maxTokens: messages * 5 })),
      },
    ]);
    const each = (timing: typeof byCount) => `${(((timing?.median ?? Number.NaN) * 1_000) / messages).toFixed(1)} ns`;
    rows.push({
      figure: `${messages.toLocaleString('en')} messages`,
      measured: `by messages ${each(byCount)}, by tokens ${each(byTokens)}`,
      target: 'flat',
    });
  }
  printRows('The window over one history, per message', rows);
}

function talk(count: number): readonly Message[] {
  const content = 'Some words of a talk that goes on and on.';
  return Array.from({ length: count }, (_, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content }));
}

function cut(messages: readonly Message[], { prepareIteration }: Extension): unknown {
  const view = { messages, systemPrompt: undefined, tools: [], settings: {} };
  return Reflect.apply(prepareIteration ?? Object, undefined, [view]);
}

async function measureGrowth(): Promise<void> {
  const rows: Row[] = [];
  for (const iterations of [50, 200, 1_000]) {
    const [plain, kept] = await race([
      { name: 'plain', run: () => turn(fakeModel({ iterations, times }), []) },
      { name: 'managed', run: () => turn(fakeModel({ iterations, times }), managed()) },
    ]);
    const each = (timing: typeof plain) => `${((timing?.median ?? Number.NaN) / (iterations + 1)).toFixed(2)} µs`;
    rows.push({
      figure: `${iterations} iterations`,
      measured: `${each(plain)} without, ${each(kept)} with`,
      target: 'flat',
    });
  }
  printRows('Shortening, compaction and window with outputs of 2,250 characters, per iteration', rows);
}

async function measureLongTurn(): Promise<void> {
  const iterations = 1_000;
  const [plain, kept] = [await longTurn(iterations, []), await longTurn(iterations, managed())];
  const heap = ({ grown }: typeof plain) => `${Math.round(grown / (iterations - 100)).toLocaleString('en')} bytes`;
  printRows(
    `One turn of ${iterations.toLocaleString('en')} iterations, a window of ${contextWindow.toLocaleString('en')} tokens`,
    [
      { figure: 'largest request without', measured: `${plain.largest.toLocaleString('en')} tokens` },
      {
        figure: 'largest request with',
        measured: `${kept.largest.toLocaleString('en')} tokens, ${kept.compactions} compactions`,
        target: 'below the window',
      },
      { figure: 'heap kept of an iteration without', measured: `${heap(plain)}, the log with its 2,250 characters` },
      { figure: 'heap kept of an iteration with', measured: heap(kept), target: 'the same' },
    ],
  );
}

/** The largest request, and what the heap grew from the 100th iteration to the last, behind a full collection. */
async function longTurn(iterations: number, extensions: readonly Extension[]) {
  const model = fakeModel({ iterations, times });
  const seen = { largest: 0, compactions: 0, grown: 0 };
  const watching: FakeModel = (messages) => {
    seen.largest = Math.max(seen.largest, tokensOf(messages));
    return model(messages);
  };
  const run = engine(watching, {
    extensions,
    onEvent(event) {
      if (event.kind === 'internal:x.compaction') seen.compactions += 1;
      if (event.kind !== 'internal:iteration-complete') return;
      if (event.iteration === 100) seen.grown = -heapInUse();
      if (event.iteration === iterations) seen.grown += heapInUse();
    },
  });
  await run();
  return seen;
}

function tokensOf(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + estimateTokens(message), 0);
}

function turn(model: FakeModel, extensions: readonly Extension[]): Promise<string> {
  return engine(model, { keptTasks: 0, extensions, onEvent: () => {} })();
}

function heapInUse(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}
