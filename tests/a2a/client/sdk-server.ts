import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  AgentCard,
  Message,
  Task,
  TaskArtifactUpdateEvent,
  TaskStatusUpdateEvent,
  taskStateFromJSON,
} from '@a2a-js/sdk';
import {
  AgentEvent,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  type RequestContext,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';

/** What an executor of the SDK does for a message, in the words of a test. */
export interface SdkTask {
  readonly request: RequestContext;
  /** The text of the message. */
  readonly said: string;
  state(name: string, parts?: readonly object[]): void;
  artifact(artifactId: string, parts: readonly object[], options?: { readonly append?: boolean }): void;
  message(text: string): void;
}

export interface SdkServerOptions {
  readonly execute: (task: SdkTask) => void | Promise<void>;
  /** Answers with messages, and makes no task. Default false. */
  readonly taskless?: boolean;
  readonly streaming?: boolean;
  /** The card says that there is an extended one, which there is not. */
  readonly extendedCard?: boolean;
  /** `JSONRPC` by default. */
  readonly transport?: 'JSONRPC' | 'HTTP+JSON';
  /** The card says so; the endpoints are those of both versions. */
  readonly version?: '1.0' | '0.3';
  /** Answers in its place where it does. */
  readonly intercept?: express.RequestHandler;
}

export interface SdkServer {
  readonly url: string;
  readonly port: number;
  /** Of each request for anything but the card. */
  readonly headers: readonly IncomingHttpHeaders[];
  /** The ids of the messages that came, in order, and those of the tasks that were cancelled. */
  readonly messageIds: readonly string[];
  readonly canceled: readonly string[];
  readonly openSockets: () => number;
  /** Breaks every connection; new ones are taken. */
  cut(): void;
  close(): Promise<void>;
}

/** A server made of the SDK's own parts, as those of other people are: with its task store, its event bus and its faults. */
export async function sdkServer(options: SdkServerOptions): Promise<SdkServer> {
  const {
    execute,
    streaming = true,
    extendedCard = false,
    transport = 'JSONRPC',
    version = '1.0',
    intercept,
    taskless = false,
  } = options;
  const headers: IncomingHttpHeaders[] = [];
  const messageIds: string[] = [];
  const canceled: string[] = [];
  const app = express();
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const card = AgentCard.fromJSON({
    name: 'Far away',
    description: 'Knows what is far away.',
    version: '1',
    supportedInterfaces: [{ url: `${url}/a2a`, protocolBinding: transport, protocolVersion: version }],
    capabilities: { streaming, extendedAgentCard: extendedCard, extensions: [] },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: 's', name: 'Seeing', description: 'Sees far', tags: [] }],
  });
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), {
    async execute(request, bus) {
      messageIds.push(request.userMessage.messageId);
      if (!request.task && !taskless) bus.publish(AgentEvent.task(newTask(request)));
      await execute(sdkTask(request, bus));
      bus.finished();
    },
    async cancelTask(taskId, bus) {
      canceled.push(taskId);
      bus.publish(AgentEvent.statusUpdate(statusUpdate(taskId, '', 'TASK_STATE_CANCELED')));
    },
  });
  const legacyCompat = { enabled: true };
  app.use((request, _response, next) => {
    if (!request.path.startsWith('/.well-known')) headers.push(request.headers);
    next();
  });
  if (intercept) app.use(intercept);
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler, legacyCompat }));
  const userBuilder = UserBuilder.noAuthentication;
  const serve = transport === 'JSONRPC' ? jsonRpcHandler : restHandler;
  app.use('/a2a', serve({ requestHandler, userBuilder, legacyCompat }));
  return { url, port, headers, messageIds, canceled, ...connections(server) };
}

function connections(server: Server): Pick<SdkServer, 'openSockets' | 'cut' | 'close'> {
  let open = 0;
  server.on('connection', (socket) => {
    open++;
    socket.on('close', () => open--);
  });
  return {
    openSockets: () => open,
    cut: () => server.closeAllConnections(),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function newTask({ taskId, contextId, userMessage }: RequestContext): Task {
  return Task.fromJSON({
    id: taskId,
    contextId,
    status: { state: 'TASK_STATE_SUBMITTED', timestamp: new Date().toISOString() },
    history: [Message.toJSON(userMessage)],
  });
}

function statusUpdate(taskId: string, contextId: string, state: string, parts?: readonly object[]) {
  const message = parts && { messageId: crypto.randomUUID(), role: 'ROLE_AGENT', parts, taskId, contextId };
  const status = { state, timestamp: new Date().toISOString(), ...(message && { message }) };
  return TaskStatusUpdateEvent.fromJSON({ taskId, contextId, status });
}

function sdkTask(request: RequestContext, bus: ExecutionEventBus): SdkTask {
  const { taskId, contextId, userMessage } = request;
  const [first] = userMessage.parts;
  return {
    request,
    said: first?.content?.$case === 'text' ? first.content.value : '',
    state(name, parts) {
      taskStateFromJSON(`TASK_STATE_${name}`);
      bus.publish(AgentEvent.statusUpdate(statusUpdate(taskId, contextId, `TASK_STATE_${name}`, parts)));
    },
    artifact(artifactId, parts, { append = false } = {}) {
      const artifact = { artifactId, parts };
      bus.publish(AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON({ taskId, contextId, artifact, append })));
    },
    message(text) {
      const said = { messageId: crypto.randomUUID(), role: 'ROLE_AGENT', parts: [{ text }], contextId };
      bus.publish(AgentEvent.message(Message.fromJSON(said)));
    },
  };
}
