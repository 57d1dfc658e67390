fn main() {
    tenure_testkit::role::run_if_asked();
}
