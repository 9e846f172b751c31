import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessageChunk } from '@langchain/core/messages';
import { ChatGenerationChunk } from '@langchain/core/outputs';
import { tool } from '@langchain/core/tools';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { echo, echoParameters } from '../echo-tool.ts';
import { sharedFakeModel } from '../fake-model.ts';

const tools = [tool((args) => echo(args), { name: 'echo', description: 'Says it again.', schema: echoParameters })];

/** The answer of the model in the chunks of this library. */
class FakeChatModel extends BaseChatModel {
  #answer;

  constructor(work) {
    super({});
    this.#answer = sharedFakeModel(work);
  }

  _llmType() {
    return 'fake';
  }

  bindTools() {
    return this;
  }

  async _generate() {
    throw new Error('The bench streams.');
  }

  async *_streamResponseChunks(messages, _options, runManager) {
    const told = messages.map((message) => ({ role: message.getType() === 'ai' ? 'assistant' : 'user' }));
    for await (const chunk of this.#answer(told)) {
      const text = chunk.type === 'text' ? chunk.text : '';
      const toolCalls = chunk.type === 'done' ? chunk.response.toolCalls : [];
      const calls = toolCalls.map(({ id, function: called }, index) => ({
        type: 'tool_call_chunk',
        id,
        index,
        name: called.name,
        args: called.arguments,
      }));
      const message = new AIMessageChunk({ content: text, tool_call_chunks: calls });
      yield new ChatGenerationChunk({ text, message });
      if (text !== '') await runManager?.handleLLMNewToken(text);
    }
  }
}

export function langgraph(work) {
  const agent = createReactAgent({ llm: new FakeChatModel(work), tools });
  const options = { streamMode: ['messages', 'values'], recursionLimit: 1_000_000 };
  return async () => {
    const messages = [{ role: 'user', content: 'Hello' }];
    let last;
    for await (const [mode, value] of await agent.stream({ messages }, options)) {
      if (mode === 'values') last = value.messages.at(-1);
    }
    return last.content;
  };
}
