import type { ToolProvider } from '../core/contracts/index.ts';

const wrapped = new WeakMap<ToolProvider, ToolProvider>();

/** Notes that a provider offers the tools of another one. Gives it back. */
export function wrapping<Outer extends ToolProvider>(outer: Outer, inner: ToolProvider): Outer {
  wrapped.set(outer, inner);
  return outer;
}

/** The provider that the wrappers of this package hold; the provider itself where there are none. */
export function innermost(provider: ToolProvider): ToolProvider {
  let found = provider;
  for (let inner = wrapped.get(found); inner; inner = wrapped.get(found)) found = inner;
  return found;
}
