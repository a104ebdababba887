export default async function Page({ params }: { readonly params: Promise<{ number: string }> }) {
  return <p id="order">Order {(await params).number}</p>;
}
