type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** Compiles only where both types are the same, or, with `false`, are not. The compiler holds it; jest does not look at types. */
export function same<A, B>(answer: Same<A, B>): boolean {
  return answer;
}
