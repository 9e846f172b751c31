import { expect, it } from '@jest/globals';
import {
  checkedTools,
  type JSONSchema,
  type LLMChunk,
  LocalToolProvider,
  type Message,
  type LLMProvider as OurLLMProvider,
  type ToolProvider as OurToolProvider,
  type ToolContext,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { Observable } from 'rxjs';
import { turnBench } from '../core/turn-bench.ts';
import { listContext, toolCall, toolContext } from './tool-context.ts';

// The types of the document that the engine was conceived from, as they stand there. Those that it only names (Message,
// JSONSchema, ToolContext) are ours.

interface ToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

interface ToolDefinition {
  type: 'function';
  function: { name: string; description: string; parameters: JSONSchema };
}

interface ToolResult {
  toolCallId: string;
  content: string;
  success: boolean;
  error?: string;
}

interface ToolProvider {
  getTools(): Promise<ToolDefinition[]>;
  executeTool(call: ToolCall, context: ToolContext): Promise<ToolResult>;
}

interface LLMCallParams {
  messages: Message[];
  tools?: ToolDefinition[];
  temperature?: number;
  maxTokens?: number;
  metadata?: Record<string, unknown>;
}

interface LLMResponse {
  message: Message;
  toolCalls?: ToolCall[];
  finishReason?: 'stop' | 'length' | 'tool_calls' | 'content_filter';
  usage?: { promptTokens: number; completionTokens: number; totalTokens: number };
}

interface LLMProvider {
  call(params: LLMCallParams): Promise<LLMResponse>;
  stream?(params: LLMCallParams): Observable<LLMChunk>;
}

const bench = turnBench();

const definition: ToolDefinition = {
  type: 'function',
  function: {
    name: 'greet',
    description: 'Greets somebody.',
    parameters: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  },
};

class SeedTools implements ToolProvider {
  async getTools(): Promise<ToolDefinition[]> {
    return [definition];
  }

  async executeTool(call: ToolCall, context: ToolContext): Promise<ToolResult> {
    const { name }: { name: string } = JSON.parse(call.function.arguments);
    return { toolCallId: call.id, content: `hello ${name} in ${context.taskId}`, success: true };
  }
}

/** Asks for the tool that it is offered, then says what it read. */
class SeedModel implements LLMProvider {
  readonly asked: LLMCallParams[] = [];

  async call(params: LLMCallParams): Promise<LLMResponse> {
    this.asked.push(params);
    const { messages, tools = [] } = params;
    const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2 };
    const last = messages.at(-1);
    if (last?.role === 'tool') return { message: { role: 'assistant', content: `It said: ${last.content}` }, usage };
    const name = tools[0]?.function.name ?? 'none';
    const toolCalls: ToolCall[] = [{ id: 'a', type: 'function', function: { name, arguments: '{"name":"Ada"}' } }];
    return { message: { role: 'assistant', content: null }, toolCalls, finishReason: 'tool_calls', usage };
  }
}

it('S1-111 a tool provider and a tool of the document compile and run unchanged', async () => {
  const seed: OurToolProvider = new SeedTools();
  for (const provider of [seed, checkedTools(seed)]) {
    expect(await provider.getTools(listContext)).toMatchObject([definition]);
    expect(await provider.executeTool(toolCall('greet', { name: 'Ada' }), toolContext())).toEqual({
      toolCallId: 'call_1',
      content: 'hello Ada in task',
      success: true,
    });
  }
  const local = new LocalToolProvider();
  local.register(definition, async () => 'hello');
  expect(await local.executeTool(toolCall('greet', { name: 'Ada' }), toolContext())).toMatchObject({
    content: 'hello',
  });
});

it('S1-111 a model provider of the document compiles, and a turn runs with it and its tools unchanged', async () => {
  const seed = new SeedModel();
  const llmProvider: OurLLMProvider = seed;
  const config = bench.config(llmProvider, { toolProviders: [new SeedTools()] });
  const turn = new AgentLoop(config).startTurn([{ role: 'user', content: 'hi' }], { taskId: 't' });
  const { text, usage, toolCalls } = await turn.result();
  expect([text, usage.totalTokens, toolCalls]).toEqual(['It said: hello Ada in t', 4, 1]);
  expect(seed.asked.map(({ messages }) => messages.map(({ role }) => role))).toEqual([
    ['user'],
    ['user', 'assistant', 'tool'],
  ]);
  expect(seed.asked.map(({ tools }) => tools)).toMatchObject([[definition], [definition]]);
});
