import { AgentLoop, type Extension, foldRecords, InMemoryStateStore, LocalToolProvider, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const roll = tool({
  name: 'roll_dice',
  description: 'Rolls a die.',
  parameters: { type: 'object', properties: {} },
  execute: () => 6,
});

/** Counts the sixes, in the journal: `data` is its own, `messages` and `finish` are effects that the core folds. */
const lucky: Extension = {
  name: 'lucky',
  afterToolCall: ({ result }) => (result.content === '6' ? { data: { sixes: 1 } } : undefined),
  afterIteration: ({ finished }) =>
    finished ? undefined : { messages: [{ role: 'user', content: 'Was that a six?' }] },
  beforeFinish: ({ text }) => ({ finish: { text, value: { lucky: text.startsWith('Yes') } } }),
};

const store = new InMemoryStateStore();
const loop = new AgentLoop({
  agentId: 'croupier',
  llmProvider: scriptedLLM([{ toolCalls: [{ name: 'roll_dice' }] }, { text: ['Yes, ', 'a six.'] }]),
  toolProviders: [new LocalToolProvider([roll])],
  taskStateStore: store,
  extensions: [lucky],
});

// Deltas have no cursor: they are emitted, and never stored.
const turn = loop.startTurn([{ role: 'user', content: 'Roll!' }], { taskId: 'game' });
for await (const { kind, cursor = 'delta' } of turn) console.log('event ', cursor.padEnd(6), kind);

// Records are stored. The state is their fold.
const records = await store.read('game');
for (const { seq, type } of records) console.log('record', String(seq).padEnd(6), type);
const state = foldRecords(records);
console.log('state ', state.messages.map(({ role }) => role).join(', '));

const { text, value } = await turn.result();
console.log('result', text, value);
