import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { echo, echoParameters } from '../echo-tool.ts';
import { sdkModel } from './sdk-model.mjs';

const tools = {
  echo: createTool({
    id: 'echo',
    description: 'Says it again.',
    inputSchema: echoParameters,
    execute: (args) => echo(args),
  }),
};

export function mastra(work) {
  const agent = new Agent({ id: 'bench', name: 'bench', instructions: '', model: sdkModel(work), tools });
  return async () => {
    const result = await agent.stream('Hello', { maxSteps: 1_000_000 });
    let text = '';
    for await (const { type, payload } of result.fullStream) {
      if (type === 'error') throw payload.error;
      if (type === 'step-start') text = '';
      if (type === 'text-delta') text += payload.text;
    }
    return text;
  };
}
