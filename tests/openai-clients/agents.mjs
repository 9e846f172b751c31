import { Agent, hostedMcpTool, OpenAIProvider, Runner, setTracingDisabled } from '@openai/agents';
import OpenAI from 'openai';

setTracingDisabled(true);

export function chatOf({ baseURL, apiKey, endpoint, stream, by, headers }) {
  const client = new OpenAI({ baseURL, apiKey, defaultHeaders: headers });
  // The agent that is asked has tools of its own, which this one names to be asked for approvals.
  const tools = [
    hostedMcpTool({ serverLabel: 'clerk', serverUrl: 'https://localhost/none', requireApproval: 'always' }),
  ];
  const agent = new Agent({ name: 'Shop', model: 'clerk', tools: endpoint === 'chat' ? [] : tools });
  const provider = new OpenAIProvider({ openAIClient: client, useResponses: endpoint === 'responses' });
  const runner = new Runner({ modelProvider: provider });
  let last;
  const ask = async (input) => {
    const options = {};
    if (by === 'previous' && last) options.previousResponseId = last.lastResponseId;
    if (by === 'conversation') options.conversationId = 'conv_1';
    if (stream) {
      const result = await runner.run(agent, input, { ...options, stream });
      last = result;
      for await (const _ of result);
      await result.completed;
      if (result.error) throw result.error;
    } else last = await runner.run(agent, input, options);
    const asks = last.interruptions.map(({ name, rawItem }) => ({
      name,
      input: JSON.parse(rawItem.providerData.arguments),
    }));
    return { text: asks.length > 0 ? '' : last.finalOutput, asks };
  };
  return {
    say: (content) => {
      const message = { role: 'user', content };
      return ask(last && (by === 'history' || endpoint === 'chat') ? [...last.history, message] : [message]);
    },
    decide: (approved) => {
      const { state, interruptions } = last;
      for (const each of interruptions) approved ? state.approve(each) : state.reject(each);
      return ask(state);
    },
  };
}
