import {
  AgentLoop,
  carryOver,
  compactConversation,
  contextManagement,
  estimateTokens,
  InMemoryStateStore,
  isCompactionEvent,
  type LLMProvider,
  LocalToolProvider,
  type Message,
  tool,
} from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const readChapter = tool({
  name: 'read_chapter',
  description: 'Reads a chapter of the log book.',
  parameters: { type: 'object', properties: { chapter: { type: 'integer' } }, required: ['chapter'] },
  readOnly: true,
  execute: ({ chapter }) => `Chapter ${chapter}. ${'Wind from the west, all well. '.repeat(100)}The end of ${chapter}.`,
});

// The model reads ten chapters, looks the first one up again, and answers.
const chapters = Array.from({ length: 10 }, (_, index) => ({
  toolCalls: [{ name: 'read_chapter', id: `chapter-${index + 1}`, arguments: { chapter: index + 1 } }],
}));
const again = { toolCalls: [{ name: 'read_tool_output', arguments: { id: 'chapter-1', offset: 2_990, length: 100 } }] };
const model = scriptedLLM([...chapters, again, { text: 'Nothing happened in ten chapters.' }]);
// Any provider, preferably a cheap one: here it always returns this.
const summarizer: LLMProvider = {
  call: async () => ({ message: { role: 'assistant', content: 'Chapters so far: fine weather.' } }),
};
const compaction = { contextWindow: 3_000, keepLast: 4, provider: summarizer };

const loop = new AgentLoop({
  agentId: 'reader',
  llmProvider: model,
  toolProviders: [new LocalToolProvider([readChapter])],
  taskStateStore: new InMemoryStateStore(),
  maxIterations: 20,
  extensions: contextManagement({ toolOutputCache: { keepLast: 2, maxChars: 1_500 }, compaction }),
});

const question: Message = { role: 'user', content: 'What happened on the voyage?' };
const turn = loop.startTurn([question]);
turn.subscribe((event) => {
  if (!isCompactionEvent(event)) return;
  const { iteration, payload } = event;
  const { replaced, tokensBefore, tokensAfter } = payload;
  console.log(`iteration ${iteration}: ${replaced} messages summed up, ${tokensBefore} tokens -> ${tokensAfter}`);
});
const { text, messages: added } = await turn.result();

const tokensOf = (all: readonly Message[]) => all.reduce((sum, message) => sum + estimateTokens(message), 0);
const largest = Math.max(...model.calls.map(({ messages }) => tokensOf(messages)));
const outputs = added.filter(({ role }) => role === 'tool');
console.log(`largest request below the window: ${largest < 3_000}`);
console.log(`read again: ${String(outputs.at(-1)?.content).split('\n').at(-1)}`);
console.log(`history: ${added.length} messages, whole: ${tokensOf(added) > 7_500}`);
console.log(text);

// Between two turns, after the end of one.
const context = [question, ...added];
const compacted = await compactConversation(context, compaction, { provider: model });
const next = carryOver(context, compacted?.compaction);
console.log(`the next turn begins with ${next.length} messages in place of ${context.length}`);
