export default function Page() {
  return <p role="alert">Nothing was ordered. Open the form again, with JavaScript.</p>;
}
