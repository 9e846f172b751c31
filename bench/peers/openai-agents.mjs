import { Agent, Runner, setTracingDisabled, tool, Usage } from '@openai/agents-core';
import { echo, echoParameters } from '../echo-tool.ts';
import { sharedFakeModel } from '../fake-model.ts';

setTracingDisabled(true);

const tools = [
  tool({
    name: 'echo',
    description: 'Says it again.',
    parameters: echoParameters,
    strict: false,
    execute: (args) => echo(args),
  }),
];

/** The answer of the model in the events of this library. */
async function* play(chunks) {
  for await (const chunk of chunks) {
    if (chunk.type === 'text') {
      yield { type: 'output_text_delta', delta: chunk.text };
      continue;
    }
    const { message, toolCalls } = chunk.response;
    const content = [{ type: 'output_text', text: message.content }];
    const output = [{ type: 'message', role: 'assistant', status: 'completed', content }];
    for (const { id, function: called } of toolCalls) {
      output.push({ type: 'function_call', callId: id, status: 'completed', ...called });
    }
    yield { type: 'response_done', response: { id: 'r', usage: new Usage(), output } };
  }
}

export function openaiAgents(work) {
  const answer = sharedFakeModel(work);
  const model = {
    getResponse: () => Promise.reject(new Error('The bench streams.')),
    getStreamedResponse: ({ input }) => play(answer(input)),
  };
  const agent = new Agent({ name: 'bench', instructions: '', model, tools });
  const runner = new Runner();
  return async () => {
    const result = await runner.run(agent, 'Hello', { stream: true, maxTurns: 1_000_000 });
    for await (const _ of result);
    await result.completed;
    return result.finalOutput;
  };
}
