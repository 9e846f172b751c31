import type { StartOptions } from '../contracts/config.ts';
import type { ToolListContext } from '../contracts/tool.ts';

/** What the caller of a turn gave and no record keeps, for a turn that is started below it. */
export function givenByCaller({
  authContext,
  context,
}: Pick<ToolListContext, 'authContext' | 'context'>): Pick<StartOptions, 'authContext' | 'context'> {
  return { ...(authContext && { authContext }), ...(context !== undefined && { context }) };
}
