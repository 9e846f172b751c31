import type { Agent } from 'millrace';
import { openAIHandler } from 'millrace/openai';
import { agUiHandler, type HandlerOptions, respondWithSSE, uiMessageHandler } from 'millrace/ui';

const scopeOf = (request: Request): string => request.headers.get('x-user') ?? 'ann';

/** All handlers of an agent: `/api/chat` for the AI SDK 7, `/api/chat-6` for 6, `/api/ag-ui`, `/v1` for OpenAI's API, and `/api/events/<task>` for `EventSource`. */
export function routes(agent: Agent, options: Partial<HandlerOptions> = {}) {
  const common = { agent, scopeOf, tools: 'full', reasoning: true, onDisconnect: 'continue', ...options } as const;
  const seven = uiMessageHandler(common);
  const six = uiMessageHandler({ ...common, sdk: 6 });
  const agUi = agUiHandler(common);
  const { agent: _, ...shared } = common;
  const openAI = openAIHandler({ ...shared, agents: [agent] });
  const handler = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith('/api/chat-6')) return six(request);
    if (pathname.startsWith('/api/chat')) return seven(request);
    if (pathname.startsWith('/api/ag-ui')) return agUi(request);
    if (pathname.startsWith('/v1')) return openAI(request);
    const taskId = /^\/api\/events\/(.+)$/.exec(pathname)?.[1];
    if (taskId === undefined) return new Response('not found', { status: 404 });
    const from = request.headers.get('last-event-id') ?? undefined;
    return respondWithSSE(() => agent.observe(taskId, { from, recover: {} }), { from });
  };
  const close = () => {
    for (const each of [seven, six, agUi, openAI]) each.close();
  };
  return { handler, close };
}
