// The key comes with the private file, or from what this tab of this origin, its port included, was given before.
const form = document.forms[0];
form.key.value = form.key.value || sessionStorage.getItem("key") || "";
if (form.key.value) form.submit();
