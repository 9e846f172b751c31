import { catchError, defer, tap, throwError } from 'rxjs';
import { AgentLoopError, type LLMCallParams, type LLMProvider, type ToolChoice } from '../../core/contracts/index.ts';

/** Models, by provider, that refused a forced tool. */
const refusing = new WeakMap<LLMProvider, Set<string>>();

export function isForced(choice: ToolChoice | undefined): boolean {
  return choice === 'required' || typeof choice === 'object';
}

/**
 * A provider that makes a call again without a forced tool where the server refuses one: the tool is then the only one offered. The
 * refusal is remembered for the provider and the model.
 */
export function withoutRefusedForce(provider: LLMProvider): LLMProvider {
  const stream = provider.stream?.bind(provider);
  const prepare = provider.prepare?.bind(provider);
  return {
    ...(provider.capabilities && { capabilities: provider.capabilities }),
    ...(provider.info && { info: provider.info }),
    ...(provider.tracesAttempts !== undefined && { tracesAttempts: provider.tracesAttempts }),
    ...(prepare && { prepare }),
    async call(params) {
      if (hasRefused(provider, params)) return provider.call(unforced(params));
      try {
        return await provider.call(params);
      } catch (thrown) {
        if (!isRefusal(thrown, params)) throw thrown;
        remember(provider, params);
        return provider.call(unforced(params));
      }
    },
    ...(stream && {
      stream: (params) =>
        defer(() => {
          if (hasRefused(provider, params)) return stream(unforced(params));
          let answered = false;
          return stream(params).pipe(
            tap(() => {
              answered = true;
            }),
            catchError((thrown: unknown) => {
              if (answered || !isRefusal(thrown, params)) return throwError(() => thrown);
              remember(provider, params);
              return stream(unforced(params));
            }),
          );
        }),
    }),
  };
}

function modelOf(provider: LLMProvider, { model }: LLMCallParams): string {
  return model ?? provider.info?.model ?? '';
}

function hasRefused(provider: LLMProvider, params: LLMCallParams): boolean {
  return isForced(params.toolChoice) && refusing.get(provider)?.has(modelOf(provider, params)) === true;
}

function remember(provider: LLMProvider, params: LLMCallParams): void {
  const models = refusing.get(provider) ?? new Set<string>();
  refusing.set(provider, models.add(modelOf(provider, params)));
}

/** How servers name what they refuse: the field of each wire, or the words "tool choice". */
const namesChoice =
  /tool[\s_-]?choice|toolConfig|function[\s_-]?calling[\s_-]?(?:config|mode)|forced? (?:tool|function)/i;

function isRefusal(thrown: unknown, { toolChoice }: LLMCallParams): boolean {
  if (!isForced(toolChoice) || !AgentLoopError.isInstance(thrown)) return false;
  return thrown.code === 'PROVIDER_BAD_REQUEST' && namesChoice.test(thrown.message);
}

function unforced(params: LLMCallParams): LLMCallParams {
  const { toolChoice, tools } = params;
  const name = typeof toolChoice === 'object' ? toolChoice.name : undefined;
  const only = tools?.filter((tool) => tool.function.name === name) ?? [];
  return { ...params, toolChoice: 'auto', ...(only.length > 0 && { tools: only }) };
}
