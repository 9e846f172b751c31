import { describe, expect, it } from '@jest/globals';
import { type Context, ROOT_CONTEXT } from '@opentelemetry/api';
import type * as ours from 'millrace';
import {
  AgentLoop,
  artifactTools,
  InMemoryArtifactStore,
  type Snapshot,
  StoreFactory,
  snapshotStateStore,
} from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import type { Observable } from 'rxjs';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { codeBlocksIn, textOf } from './markdown.ts';

const bench = turnBench();

/** True where a value of `A` may stand where a `B` is wanted. The compiler holds it. */
function fits<A, B>(answer: [A] extends [B] ? true : false): boolean {
  return answer;
}

/** The interfaces of the core document, as they stand there. */
type AgentEvent = ours.AgentEvent;
type JSONSchema = Record<string, unknown>;
type AuthContext = Record<string, unknown>;
type Message = ours.Message;

interface LLMProvider {
  call(params: LLMCallParams): Promise<LLMResponse>;
  stream?(params: LLMCallParams): Observable<ours.LLMChunk>;
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
  executeTool(call: ToolCall, context: ours.ToolContext): Promise<ToolResult>;
}
interface AgentLoopConfig {
  agentId: string;
  llmProvider: LLMProvider;
  toolProviders: ToolProvider[];
  taskStateStore?: ours.TaskStateStore;
  artifactStore?: ours.ArtifactStore;
  maxIterations?: number;
  systemPrompt?: string;
  enableTracing?: boolean;
}
interface AgentLoopContext {
  taskId: string;
  agentId: string;
  contextId: string;
  parentContext: Context;
  authContext?: AuthContext;
  systemPrompt?: string;
  maxIterations?: number;
  metadata?: Record<string, unknown>;
}
interface PersistedLoopState {
  taskId: string;
  agentId: string;
  contextId: string;
  iteration: number;
  messages: readonly Message[];
  createdAt: string;
  updatedAt: string;
}
interface TaskStateStore {
  save(taskId: string, state: Snapshot): Promise<void>;
  load(taskId: string): Promise<Snapshot | null>;
  delete(taskId: string): Promise<void>;
}
interface LoopState {
  iteration: number;
  messages: readonly Message[];
  pendingToolCalls?: readonly ours.PendingToolCall[];
  isComplete: boolean;
  finalMessage?: string | undefined;
}
type ArtifactStore = {
  create(artifact: ours.Artifact): Promise<string>;
};

/** A store as the document has it. */
function documentStore(): TaskStateStore {
  const states = new Map<string, string>();
  return {
    save: async (taskId, state) => void states.set(taskId, JSON.stringify(state)),
    load: async (taskId) => JSON.parse(states.get(taskId) ?? 'null'),
    delete: async (taskId) => void states.delete(taskId),
  };
}

describe('the interfaces of the core document', () => {
  it('U-04 compile as they stand, for models, tools, configurations and turns', () => {
    expect([
      fits<LLMProvider, ours.LLMProvider>(true),
      fits<LLMResponse, ours.LLMResponse>(true),
      fits<ToolCall, ours.ToolCall>(true),
      fits<ToolDefinition, ours.ToolDefinition>(true),
      fits<ToolResult, ours.ToolResult>(true),
      fits<ToolProvider, ours.ToolProvider>(true),
      fits<AgentLoopConfig, ours.AgentLoopConfig>(true),
      fits<AgentLoopContext, ours.StartOptions>(true),
      fits<ours.PersistedLoopState, PersistedLoopState>(true),
      fits<ours.LoopState, LoopState>(true),
      fits<ReturnType<AgentLoop['startTurn']>, Observable<AgentEvent>>(true),
      fits<ReturnType<typeof AgentLoop.resume>, Observable<AgentEvent>>(true),
      fits<TaskStateStore, ours.SnapshotStore>(true),
    ]).not.toContain(false);
  });

  it('U-04 differ where the table says so', () => {
    expect([
      fits<TaskStateStore, ours.TaskStateStore>(false),
      fits<ours.ArtifactStore, ArtifactStore>(false),
      fits<ours.LoopState['availableTools'], readonly ToolDefinition[]>(false),
      fits<ours.LoopState['error'], Error | undefined>(false),
    ]).not.toContain(true);
    const page = textOf('docs/concepts.md');
    for (const name of ['snapshotStateStore', 'availableTools', 'pendingToolCalls', 'ArtifactStore'])
      expect(page).toContain(name);
    expect(codeBlocksIn(page).length).toBeGreaterThan(0);
  });

  it('U-04 a store with save, load and delete is refused with the name of what wraps it, and works wrapped', async () => {
    const store = documentStore();
    const made = () =>
      Reflect.construct(AgentLoop, [{ agentId: 'a', llmProvider: scriptedLLM([]), taskStateStore: store }]);
    expect(made).toThrow(
      expect.objectContaining({
        code: 'INVALID_CONFIG',
        message: expect.stringContaining('snapshotStateStore(store)'),
      }),
    );
    const config = {
      agentId: 'tester',
      llmProvider: bench.model([{ text: 'Two.' }]),
      taskStateStore: snapshotStateStore(store, { clock: bench.clock }),
      clock: bench.clock,
    };
    await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    expect(await store.load('t')).toMatchObject({ taskId: 't', isComplete: true });
    expect((await AgentLoop.resume('t', config).result()).text).toBe('Two.');
  });

  it('U-02 the configuration of the document compiles and runs, with all its members', async () => {
    const create = { name: 'create_artifact', arguments: { name: 'a.md', content: 'A.' } };
    const artifactStore = new InMemoryArtifactStore();
    const config: Required<Pick<ours.AgentLoopConfig, keyof AgentLoopConfig>> = {
      agentId: 'tester',
      llmProvider: bench.model([{ toolCalls: [create] }, { text: 'Kept.' }]),
      toolProviders: [],
      taskStateStore: StoreFactory.createStateStore({ type: 'memory' }),
      artifactStore,
      maxIterations: 10,
      systemPrompt: 'Keep what you are told.',
      enableTracing: true,
    };
    const context: AgentLoopContext = { taskId: 't', agentId: 'tester', contextId: 'c', parentContext: ROOT_CONTEXT };
    expect((await new AgentLoop(config).startTurn(question, context).result()).text).toBe('Kept.');
    expect((await AgentLoop.resume('t', config).result()).text).toBe('Kept.');
    expect((await artifactStore.list({ taskId: 't' })).artifacts.map(({ name }) => name)).toEqual(['a.md']);
  });

  it('U-04 the lines of the table run', async () => {
    const artifacts = new InMemoryArtifactStore();
    const { artifactId } = await artifacts.create({ taskId: 't', contextId: 'c', name: 'a.md', content: 'A.' });
    expect((await artifacts.list({ taskId: 't' })).artifacts.map((each) => each.artifactId)).toEqual([artifactId]);
    expect((await artifactTools(artifacts).getTools(ids)).length).toBe(4);
    expect(() => StoreFactory.createStateStore({ type: 'memory' })).not.toThrow();
  });
});

const ids = { taskId: 't', agentId: 'a', contextId: 'c', metadata: {}, authContext: undefined };
