import { AgentLoop, branch, type Extension, LocalToolProvider, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import { z } from 'zod';

const search = tool({
  name: 'search',
  description: 'Searches the archive.',
  parameters: z.object({ words: z.string() }),
  execute: ({ words }) => `3 letters about ${words}, one from agent 0042`,
});

const critic = {
  agentId: 'critic',
  llmProvider: scriptedLLM([{ text: 'The date of the letters is missing.' }]),
};

/** Inspects each step, and changes the next one. */
const supervisor: Extension = {
  name: 'supervisor',
  afterToolCall: ({ result }) => ({ result: { content: String(result.content).replace(/agent \d+/, 'agent ****') } }),
  async afterIteration(step) {
    console.log(`step ${step.iteration}: ${step.calls.length} calls, finished: ${step.finished}`);
    if (step.iteration !== 1) return undefined;
    const { text } = await branch(step, {
      config: critic,
      messages: [{ role: 'user', content: 'What is missing?' }],
    });
    return {
      messages: [{ role: 'user', content: `A critic says: ${text}` }],
      settings: { temperature: 0 },
      tools: { remove: ['search'] },
    };
  },
};

const model = scriptedLLM([
  { toolCalls: [{ name: 'search', arguments: { words: 'the flood' } }] },
  { text: 'Three letters tell of the flood; they have no date.' },
]);
const loop = new AgentLoop({
  agentId: 'archivist',
  llmProvider: model,
  toolProviders: [new LocalToolProvider([search])],
  extensions: [supervisor],
});
const { text } = await loop.startTurn([{ role: 'user', content: 'What do we have about the flood?' }]).result();

const [, second] = model.calls;
for (const { role, content } of second?.messages ?? []) console.log(`${role}:`, content);
console.log('temperature', second?.temperature, 'tools', second?.tools?.length ?? 0);
console.log(text);
